// RUN: mgn-opt %s | mgn-opt -f mlir - | filecheck %s

// CHECK: mgn.param @layers.0.w : tensor<3x8xf32> = normal(0.0, 0.02)
mgn.param @"layers.0.w" : tensor<3x8xf32> = normal(0.0, 0.02)
// CHECK-NEXT: mgn.param @"odd name" : tensor<3xf32>
mgn.param @"odd name" : tensor<3xf32>

// CHECK: mgn.graph @g("x" = %x: tensor<2x8xf32>) -> ("y" : tensor<2x3xf32>, "best" : tensor<2xi32>) {
mgn.graph @g("x" = %x : tensor<2x8xf32>) -> ("y" : tensor<2x3xf32>, "best" : tensor<2xi32>) {
  // CHECK-NEXT: %w = mgn.read @layers.0.w : tensor<3x8xf32>
  %w = mgn.read @"layers.0.w" : tensor<3x8xf32>
  // CHECK-NEXT: %b = mgn.read @"odd name" : tensor<3xf32>
  %b = mgn.read @"odd name" : tensor<3xf32>
  // CHECK-NEXT: %n0 = mgn.layer_norm(%x) : tensor<2x8xf32>
  %n0 = mgn.layer_norm(%x) eps = 1.0e-05 : tensor<2x8xf32>
  // CHECK-NEXT: %h = mgn.rms_norm(%n0) eps = 1.0e-06 : tensor<2x8xf32>
  %h = mgn.rms_norm(%n0) eps = 0.000001 : tensor<2x8xf32>
  // CHECK-NEXT: %m = mgn.matmul(%h, %w) transpose_b = true : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x3xf32>
  %m = mgn.matmul(%h, %w) transpose_b = true : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %l = mgn.linear(%h, %w, %b) : (tensor<2x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %l = mgn.linear(%h, %w, %b) : (tensor<2x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %c = mgn.clamp(%m) max = 6.0 : tensor<2x3xf32>
  %c = mgn.clamp(%m) max = 6.0 : tensor<2x3xf32>
  // CHECK-NEXT: %p = mgn.pad(%c) padding = {{\[\[0, 0\], \[1, 2\]\]}} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %p = mgn.pad(%c) padding = [[0, 0], [1, 2]] : (tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK-NEXT: %s, %t = mgn.split(%p) sizes = [3, 3], axis = 1 : (tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %s, %t = mgn.split(%p) sizes = [3, 3], axis = 1 : (tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK-NEXT: %e = mgn.einsum(%s, %t) equation = "ij,ij->i" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  %e = mgn.einsum(%s, %t) equation = "ij,ij->i" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %i = mgn.argmax(%l) axis = [1] : (tensor<2x3xf32>) -> tensor<2xi32>
  %i = mgn.argmax(%l) axis = [1] : (tensor<2x3xf32>) -> tensor<2xi32>
  // CHECK-NEXT: %n = mgn.iota() shape = [2], axis = 0, T = ui8 : () -> tensor<2xui8>
  %n = mgn.iota() shape = [2], axis = 0, T = ui8 : () -> tensor<2xui8>
  // CHECK-NEXT: %k = mgn.constant dense<[true, false]> : tensor<2xi1>
  %k = mgn.constant dense<[true, false]> : tensor<2xi1>
  // CHECK-NEXT: %f = mgn.constant -inf : tensor<bf16>
  %f = mgn.constant -inf : tensor<bf16>
  // CHECK-NEXT: mgn.return %l, %i : tensor<2x3xf32>, tensor<2xi32>
  mgn.return %l, %i : tensor<2x3xf32>, tensor<2xi32>
}
