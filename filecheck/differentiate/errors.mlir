// RUN: mgn-opt -p differentiate --split-input-file --verify-diagnostics %s

mgn.graph @no_rule("x" = %x: tensor<4xf32>, "z" = %z: tensor<2xf32>) -> ("g" : tensor<4xf32>) {
  // expected-error@+1 {{running_product_in_parts has no gradient; use cumprod}}
  %y = mgn.running_product_in_parts(%x, %z) axis = 0, part = 2 : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>
  %s = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
  %g = mgn.grad %s of %x : tensor<f32>, tensor<4xf32>
  mgn.return %g : tensor<4xf32>
}

// -----

mgn.graph @no_scalar("x" = %x: tensor<4xf32>) -> ("g" : tensor<4xf32>) {
  // expected-error@+1 {{grad: differentiates a scalar, not f32[4]; sum or mean it}}
  %g = mgn.grad %x of %x : tensor<4xf32>, tensor<4xf32>
  mgn.return %g : tensor<4xf32>
}

// -----

mgn.graph @integer("x" = %x: tensor<f32>, "i" = %i: tensor<4xi32>) -> ("g" : tensor<4xi32>) {
  // expected-error@+1 {{grad: i32 values have no gradient}}
  %g = mgn.grad %x of %i : tensor<f32>, tensor<4xi32>
  mgn.return %g : tensor<4xi32>
}
