// RUN: mgn-opt --verify-diagnostics --split-input-file %s

mgn.graph @type("x" = %x : tensor<4xf32>) -> ("y" : tensor<5xf32>) {
  // expected-error@+1 {{result type must be tensor<4xf32>}}
  %y = mgn.relu(%x) : (tensor<4xf32>) -> tensor<5xf32>
  mgn.return %y : tensor<5xf32>
}

// -----

mgn.graph @order("x" = %x : tensor<4xf32>) -> ("z" : tensor<4xf32>) {
  %z = mgn.relu(%y) : tensor<4xf32>  // expected-error-re {{operand [0-9] of mgn.relu is used before}}
  %y = mgn.relu(%x) : tensor<4xf32>
  mgn.return %z : tensor<4xf32>
}

// -----

mgn.graph @unknown("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %y = mgn.rleu(%x) : tensor<4xf32>
  // expected-error@above {{mgn.rleu is not registered}}
  mgn.return %y : tensor<4xf32>
}
