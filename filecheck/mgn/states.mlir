// RUN: mgn-opt --split-input-file --verify-diagnostics %s

mgn.state @k : tensor<4xf32> = zeros()
mgn.graph @g() -> ("y" : tensor<4xf32>) {
  %y = mgn.read_state @k : tensor<4xf32>
  mgn.write_state @k, %y : tensor<4xf32>
  mgn.return %y : tensor<4xf32>
}

// -----

mgn.state @k : tensor<4xf32>
// expected-error@+1 {{state @"k" has type tensor<4xf32>}}
mgn.graph @g("x" = %x: tensor<2xf32>) -> ("x" : tensor<2xf32>) {
  mgn.write_state @k, %x : tensor<2xf32>
  mgn.return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{there is no state @"k"}}
mgn.graph @g() -> ("y" : tensor<4xf32>) {
  %y = mgn.read_state @k : tensor<4xf32>
  mgn.return %y : tensor<4xf32>
}

// -----

mgn.state @k : tensor<4xf32>
// expected-error@+1 {{state @"k" has type tensor<4xf32>}}
mgn.graph @g(state "k" = %k: tensor<2xf32>) -> ("y" : tensor<2xf32>) {
  mgn.return %k : tensor<2xf32>
}

// -----

mgn.state @k : tensor<4xf32>
mgn.state @k : tensor<4xf32>
// expected-error@+1 {{two states are named "k"}}
mgn.graph @g(state "k" = %k: tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  mgn.return %k : tensor<4xf32>
}
