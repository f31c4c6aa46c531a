// RUN: mgn-opt --verify-diagnostics --split-input-file %s

mgn.graph @shapes("a" = %a : tensor<2xf32>, "b" = %b : tensor<3xf32>) -> ("y" : tensor<2xf32>) {
  // expected-error @+1 {{mgn.add: shapes [2] and [3] do not broadcast: axis -1 differs}}
  %0 = mgn.add(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  mgn.return %0 : tensor<2xf32>
}

// -----

mgn.graph @elements("a" = %a : tensor<2xi32>) -> ("y" : tensor<2xi32>) {
  // expected-error @+1 {{mgn.exp: operand 'x' must be float, not i32}}
  %0 = mgn.exp(%a) : tensor<2xi32>
  mgn.return %0 : tensor<2xi32>
}

// -----

mgn.graph @canonical("a" = %a : tensor<2x3xf32>) -> ("y" : tensor<2xf32>) {
  // expected-error @+1 {{mgn.sum: axis must be in canonical form, (1,)}}
  %0 = mgn.sum(%a) axis = [-1] : (tensor<2x3xf32>) -> tensor<2xf32>
  mgn.return %0 : tensor<2xf32>
}

// -----

mgn.graph @result("a" = %a : tensor<2x3xf32>) -> ("y" : tensor<3xf32>) {
  // expected-error @+1 {{mgn.sum: result type must be tensor<2xf32>}}
  %0 = mgn.sum(%a) axis = [1] : (tensor<2x3xf32>) -> tensor<3xf32>
  mgn.return %0 : tensor<3xf32>
}

// -----

mgn.graph @heads("q" = %q : tensor<4x6xf32>) -> ("y" : tensor<4x6xf32>) {
  // expected-error @+1 {{mgn.attention: heads 3 is not a multiple of kv_heads 2}}
  %0 = mgn.attention(%q, %q, %q) heads = 3, kv_heads = 2, scale = 1.0 : tensor<4x6xf32>
  mgn.return %0 : tensor<4x6xf32>
}

// -----

mgn.graph @attribute("a" = %a : tensor<2xf32>) -> ("y" : tensor<2xf32>) {
  // expected-error @+1 {{mgn.softmax has no attribute 'axes'}}
  %0 = mgn.softmax(%a) axes = 0 : tensor<2xf32>
  mgn.return %0 : tensor<2xf32>
}

// -----

mgn.graph @returns("a" = %a : tensor<2xf32>) -> ("y" : tensor<2xf32>, "z" : tensor<2xf32>) {
  // expected-error @+1 {{mgn.return: 1 values for 2 results}}
  mgn.return %a : tensor<2xf32>
}
