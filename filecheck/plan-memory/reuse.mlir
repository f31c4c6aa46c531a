// RUN: mgn-opt -p plan-memory %s | filecheck %s

mgn.param @w : tensor<64xf32>

kernel.func @add(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>) access [read, read, write] global [64, 1, 1] local [1, 1, 1] {
  kernel.return
}
kernel.func @add3(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>, %s : memref<64xf32>) access [read, read, read, write] global [64, 1, 1] local [1, 1, 1] {
  kernel.return
}
kernel.func @relu(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [64, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 1>]} {
  kernel.return
}

// Two values live at once; the third takes the first one's place, the last works in place.
// CHECK-LABEL: plan.program @chain arena 512 attributes {tensor_bytes = 1024 : i64, lower_bound = 512 : i64} {
// CHECK-NEXT:    %x = plan.input "x" tensor<8x8xf32> : memref<64xf32>
// CHECK-NEXT:    %w = plan.param @w tensor<64xf32> : memref<64xf32>
// CHECK-NEXT:    %a = plan.view offset 0 : memref<64xf32>
// CHECK-NEXT:    plan.launch @add(%x, %w, %a)
// CHECK-NEXT:    %b = plan.view offset 256 : memref<64xf32>
// CHECK-NEXT:    plan.launch @add(%a, %w, %b)
// CHECK-NEXT:    %c = plan.view offset 0 : memref<64xf32>
// CHECK-NEXT:    plan.launch @add(%b, %w, %c)
// CHECK-NEXT:    %d = plan.view offset 0 : memref<64xf32>
// CHECK-NEXT:    plan.launch @relu(%c, %d)
// CHECK-NEXT:    plan.output "y" %d tensor<64xf32>
// CHECK-NEXT:  }
mgn.graph @chain("x" = %x : tensor<8x8xf32>) -> ("y" : tensor<64xf32>) {
  %w = mgn.read @w : tensor<64xf32>
  %a = fusion.launch @add(%x, %w) : (tensor<8x8xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = fusion.launch @add(%a, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %c = fusion.launch @add(%b, %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = fusion.launch @relu(%c) : (tensor<64xf32>) -> tensor<64xf32>
  mgn.return %d : tensor<64xf32>
}

// A value that is returned, or read again, keeps its place.
// CHECK-LABEL: plan.program @kept arena 768
// CHECK:         %a = plan.view offset [[A:[0-9]+]] : memref<64xf32>
// CHECK:         %b = plan.view offset [[B:[0-9]+]] : memref<64xf32>
// CHECK:         %c = plan.view offset [[C:[0-9]+]] : memref<64xf32>
// CHECK-NEXT:    plan.launch @add(%a, %b, %c)
// CHECK-NEXT:    plan.output "a" %a
// CHECK-NEXT:    plan.output "c" %c
mgn.graph @kept("x" = %x : tensor<64xf32>) -> ("a" : tensor<64xf32>, "c" : tensor<64xf32>) {
  %a = fusion.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = fusion.launch @relu(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %c = fusion.launch @add(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  mgn.return %a, %c : tensor<64xf32>, tensor<64xf32>
}

// What is returned as it came in is copied; two reads of a parameter share its buffer.
// CHECK-LABEL: plan.program @through
// CHECK:         %x = plan.input
// CHECK-NEXT:    %w = plan.param @w
// CHECK-NEXT:    %[[T:.*]] = plan.view
// CHECK-NEXT:    plan.launch @add3(%x, %w, %w, %
// CHECK-NEXT:    plan.view
// CHECK-NEXT:    plan.copy %x to
mgn.graph @through("x" = %x : tensor<64xf32>) -> ("y" : tensor<64xf32>, "x" : tensor<64xf32>) {
  %w = mgn.read @w : tensor<64xf32>
  %v = mgn.read @w : tensor<64xf32>
  %y = fusion.launch @add3(%x, %w, %v) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  mgn.return %y, %x : tensor<64xf32>, tensor<64xf32>
}
