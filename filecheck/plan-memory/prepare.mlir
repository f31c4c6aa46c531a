// RUN: mgn-opt -p plan-memory %s | filecheck %s
// RUN: mgn-opt -p "plan-memory{prepare=false}" %s | filecheck %s --check-prefix=EVERY

mgn.param @w : tensor<64xf32>
mgn.param @v : tensor<64xf32>

kernel.func @add(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>) access [read, read, write] global [64, 1, 1] local [1, 1, 1] {
  kernel.return
}
kernel.func @relu(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [64, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 1>]} {
  kernel.return
}

// What parameters alone decide has buffers of its own, shares them with nothing, and comes first.
// CHECK-LABEL: plan.program @derived arena 512 attributes {tensor_bytes = 512 : i64, lower_bound = 512 : i64, derived_bytes = 512 : i64} {
// CHECK-NEXT:    %x = plan.input "x" tensor<64xf32> : memref<64xf32>
// CHECK-NEXT:    %w = plan.param @w tensor<64xf32> : memref<64xf32>
// CHECK-NEXT:    %v = plan.param @v tensor<64xf32> : memref<64xf32>
// CHECK-NEXT:    %sum = plan.derived : memref<64xf32>
// CHECK-NEXT:    plan.prepare @add(%w, %v, %sum)
// CHECK-NEXT:    %positive = plan.derived : memref<64xf32>
// CHECK-NEXT:    plan.prepare @relu(%sum, %positive)
// CHECK-NEXT:    %a = plan.view offset 0 : memref<64xf32>
// CHECK-NEXT:    plan.launch @relu(%x, %a)
// CHECK-NEXT:    %y = plan.view offset 256 : memref<64xf32>
// CHECK-NEXT:    plan.launch @add(%a, %positive, %y)
// CHECK-NEXT:    plan.output "y" %y tensor<64xf32>
// CHECK-NEXT:    plan.output "sum" %sum tensor<64xf32>
// CHECK-NEXT:  }

// EVERY-LABEL: plan.program @derived arena
// EVERY-NOT:     plan.prepare
// EVERY-NOT:     plan.derived
mgn.graph @derived("x" = %x : tensor<64xf32>) -> ("y" : tensor<64xf32>, "sum" : tensor<64xf32>) {
  %w = mgn.read @w : tensor<64xf32>
  %v = mgn.read @v : tensor<64xf32>
  %a = fusion.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %sum = fusion.launch @add(%w, %v) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %positive = fusion.launch @relu(%sum) : (tensor<64xf32>) -> tensor<64xf32>
  %y = fusion.launch @add(%a, %positive) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  mgn.return %y, %sum : tensor<64xf32>, tensor<64xf32>
}
