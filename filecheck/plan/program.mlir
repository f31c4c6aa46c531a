// RUN: mgn-opt %s | mgn-opt - -f mlir | filecheck %s

kernel.func @add(%x : memref<6xf32>, %y : memref<6xf32>, %z : memref<6xf32>) access [read, read, write] global [6, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 2>]} {
  kernel.return
}

// CHECK-LABEL: plan.program @shared arena 512 align 512 attributes {lower_bound = 512 : i64} {
// CHECK-NEXT:    %x = plan.input "x" tensor<2x3xf32> : memref<6xf32>
// CHECK-NEXT:    %w = plan.param @layers.0.w tensor<6xf32> : memref<6xf32>
// CHECK-NEXT:    %c = plan.constant dense<5.000000e-01> : tensor<6xf32> to memref<6xf32>
// CHECK-NEXT:    %t = plan.view offset 0 : memref<6xf32>
// CHECK-NEXT:    plan.launch @add(%x, %w, %t)
// CHECK-NEXT:    plan.launch @add(%t, %c, %t)
// CHECK-NEXT:    plan.output "y" %t tensor<2x3xf32>
// CHECK-NEXT:  }
plan.program @shared arena 512 align 512 attributes {lower_bound = 512 : i64} {
  %x = plan.input "x" tensor<2x3xf32> : memref<6xf32>
  %w = plan.param @"layers.0.w" tensor<6xf32> : memref<6xf32>
  %c = plan.constant dense<0.5> : tensor<6xf32> to memref<6xf32>
  %t = plan.view offset 0 : memref<6xf32>
  plan.launch @add(%x, %w, %t)
  plan.launch @add(%t, %c, %t)
  plan.output "y" %t tensor<2x3xf32>
}

// CHECK-LABEL: plan.program @bytes arena 256 {
// CHECK:         plan.input "mask" tensor<4xui8> : memref<4xi8>
// CHECK:         plan.copy %mask to %t
plan.program @bytes arena 256 {
  %mask = plan.input "mask" tensor<4xui8> : memref<4xi8>
  %t = plan.view offset 0 : memref<4xi8>
  plan.copy %mask to %t
  plan.output "y" %t tensor<4xui8>
}

// CHECK-LABEL: plan.program @derived arena 256 {
// CHECK:         %d = plan.derived : memref<6xf32>
// CHECK-NEXT:    plan.prepare @add(%w, %w, %d)
// CHECK:         plan.launch @add(%x, %d, %t)
plan.program @derived arena 256 {
  %x = plan.input "x" tensor<6xf32> : memref<6xf32>
  %w = plan.param @w tensor<6xf32> : memref<6xf32>
  %d = plan.derived : memref<6xf32>
  plan.prepare @add(%w, %w, %d)
  %t = plan.view offset 0 : memref<6xf32>
  plan.launch @add(%x, %d, %t)
  plan.output "y" %t tensor<6xf32>
}
