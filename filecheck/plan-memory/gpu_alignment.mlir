// RUN: mgn-opt -p 'plan-memory{alignment=512}' %s | filecheck %s

kernel.func @twice(%x : memref<4xf32>, %y : memref<4xf32>) access [read, write] global [4, 1, 1] local [1, 1, 1] {
  kernel.return
}

// CHECK-LABEL: plan.program @g arena 1024 align 512
// CHECK:         plan.view offset 0
// CHECK:         plan.view offset 512
mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %a = fusion.launch @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fusion.launch @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  mgn.return %b : tensor<4xf32>
}
