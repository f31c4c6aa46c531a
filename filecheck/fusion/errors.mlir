// RUN: mgn-opt --verify-diagnostics --split-input-file %s

mgn.graph @kind("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  // expected-error @+1 {{fusion.kernel: unknown kind 'fancy'}}
  %y = fusion.kernel fancy (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    fusion.return %a : tensor<4xf32>
  }
  mgn.return %y : tensor<4xf32>
}

// -----

mgn.graph @results("x" = %x : tensor<4xf32>) -> ("y" : tensor<2xf32>) {
  // expected-error @+1 {{fusion.kernel: results and returned values differ in type}}
  %y = fusion.kernel pointwise (%a = %x : tensor<4xf32>) -> (tensor<2xf32>) {
    fusion.return %a : tensor<4xf32>
  }
  mgn.return %y : tensor<2xf32>
}

// -----

mgn.graph @nothing("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  // expected-error @+1 {{fusion.kernel: must write something}}
  fusion.kernel pointwise (%a = %x : tensor<4xf32>) -> () {
    fusion.return
  }
  mgn.return %x : tensor<4xf32>
}

// -----

mgn.graph @unit("x" = %x : tensor<8x8xf32>) -> ("y" : tensor<8x8xf32>) {
  // expected-error @+1 {{fusion.kernel contraction: what it multiplies is not rounded to bf16}}
  %y = fusion.kernel contraction (%a = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) arranged {matrix = "bf16"} {
    %0 = mgn.matmul(%a, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    fusion.return %0 : tensor<8x8xf32>
  }
  mgn.return %y : tensor<8x8xf32>
}

// -----

mgn.graph @shift("x" = %x : tensor<8x8xf32>) -> ("y" : tensor<8x1xf32>) {
  // expected-error @+1 {{fusion.kernel reduction: its maxima of rows do more than stabilise exponentials}}
  %y = fusion.kernel reduction (%a = %x : tensor<8x8xf32>) -> (tensor<8x1xf32>) arranged {maximum = "stabilises"} {
    %0 = mgn.max_reduce(%a) axis = [1], keepdims = true : (tensor<8x8xf32>) -> tensor<8x1xf32>
    fusion.return %0 : tensor<8x1xf32>
  }
  mgn.return %y : tensor<8x1xf32>
}
