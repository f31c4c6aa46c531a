// RUN: not mgn-opt --verify-diagnostics %s 2>&1 | filecheck %s

// An announced error that does not come is an error, at the place of the announcement.
// CHECK: missing_diagnostic.mlir:5:1: error: expected error "nothing of the kind" was not produced
// expected-error {{nothing of the kind}}
mgn.param @w : tensor<4xf32> = ones()
