// RUN: mgn-opt -p 'read-panels{least=0}' %s | filecheck %s

// A table that a product reads in panels is looked up there; it is turned back on the way. Panels
// come first.
// CHECK-LABEL: mgn.graph @looked_up
// CHECK:       [[P:%.+]] = fusion.kernel pointwise
// CHECK:       fusion.kernel gather ([[A:%.+]] = [[P]] : tensor<1x2x4x32xf32>, [[I:%.+]] = %ids : tensor<3xi32>)
// CHECK-NEXT:  [[T:%.+]] = mgn.transpose([[A]]) perm = [1, 3, 0, 2] : (tensor<1x2x4x32xf32>) -> tensor<2x32x1x4xf32>
// CHECK-NEXT:  [[W:%.+]] = mgn.reshape([[T]]) shape = [64, 4]
// CHECK-NEXT:  mgn.gather([[W]], [[I]])
mgn.param @w : tensor<64x4xf32>
mgn.graph @looked_up("ids" = %ids : tensor<3xi32>) -> ("e" : tensor<3x4xf32>, "p" : tensor<1x2x4x32xf32>) {
  %w = mgn.read @w : tensor<64x4xf32>
  %e = fusion.kernel gather (%a = %w : tensor<64x4xf32>, %b = %ids : tensor<3xi32>) -> (tensor<3x4xf32>) {
    %g = mgn.gather(%a, %b) : (tensor<64x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    fusion.return %g : tensor<3x4xf32>
  }
  %p = fusion.kernel pointwise (%a = %w : tensor<64x4xf32>) -> (tensor<1x2x4x32xf32>) arranged {to_panels = 1 : i64} {
    %r = mgn.reshape(%a) shape = [2, 32, 1, 4] : (tensor<64x4xf32>) -> tensor<2x32x1x4xf32>
    %t = mgn.transpose(%r) perm = [2, 0, 3, 1] : (tensor<2x32x1x4xf32>) -> tensor<1x2x4x32xf32>
    fusion.return %t : tensor<1x2x4x32xf32>
  }
  mgn.return %e, %p : tensor<3x4xf32>, tensor<1x2x4x32xf32>
}

// One that is read otherwise too lies in memory anyway.
// CHECK-LABEL: mgn.graph @added_up
// CHECK:       [[W:%.+]] = mgn.read @w
// CHECK:       fusion.kernel gather ({{%.+}} = [[W]] : tensor<64x4xf32>
mgn.graph @added_up("ids" = %ids : tensor<3xi32>) -> ("e" : tensor<3x4xf32>, "p" : tensor<1x2x4x32xf32>, "s" : tensor<4xf32>) {
  %w = mgn.read @w : tensor<64x4xf32>
  %p = fusion.kernel pointwise (%a = %w : tensor<64x4xf32>) -> (tensor<1x2x4x32xf32>) arranged {to_panels = 1 : i64} {
    %r = mgn.reshape(%a) shape = [2, 32, 1, 4] : (tensor<64x4xf32>) -> tensor<2x32x1x4xf32>
    %t = mgn.transpose(%r) perm = [2, 0, 3, 1] : (tensor<2x32x1x4xf32>) -> tensor<1x2x4x32xf32>
    fusion.return %t : tensor<1x2x4x32xf32>
  }
  %e = fusion.kernel gather (%a = %w : tensor<64x4xf32>, %b = %ids : tensor<3xi32>) -> (tensor<3x4xf32>) {
    %g = mgn.gather(%a, %b) : (tensor<64x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    fusion.return %g : tensor<3x4xf32>
  }
  %s = fusion.kernel reduction (%a = %w : tensor<64x4xf32>) -> (tensor<4xf32>) {
    %t = mgn.sum(%a) axis = [0] : (tensor<64x4xf32>) -> tensor<4xf32>
    fusion.return %t : tensor<4xf32>
  }
  mgn.return %e, %p, %s : tensor<3x4xf32>, tensor<1x2x4x32xf32>, tensor<4xf32>
}
