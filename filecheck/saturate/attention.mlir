// RUN: mgn-opt -p saturate,choose-schedules %s | filecheck %s
// RUN: mgn-opt -p 'saturate{rules=exact}' %s | filecheck %s --check-prefix=EXACT

// The scale of the queries joins attention's own, and the residual sum is part of its kernel; scores
// are not stored.
// CHECK:      mgn.graph @mixed
// CHECK-NEXT: %[[y:[a-z0-9]+]] = fusion.kernel attention ({{.*}}) -> (tensor<96x32xf32>) schedule {form = "cpu", lanes = 16 : i64, {{.*}}block_rows = 64 : i64, block_keys = 128 : i64} {
// CHECK:        %[[a:[a-z0-9]+]] = mgn.attention({{.*}}) heads = 4, kv_heads = 2, causal = true, scale = 0.25
// CHECK-NEXT:   %[[s:[a-z0-9]+]] = mgn.add({{.*}}%[[a]]
// CHECK-NEXT:   fusion.return %[[s]]
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[y]]

// An online softmax sums in another order, so exact rules alone leave the parts.
// EXACT:     mgn.graph @mixed
// EXACT-NOT: mgn.attention
// EXACT:     fusion.kernel contraction
// EXACT:     fusion.kernel reduction
// EXACT:     fusion.kernel contraction
mgn.graph @mixed("q" = %q : tensor<96x32xf32>, "k" = %k : tensor<96x16xf32>, "v" = %v : tensor<96x16xf32>, "x" = %x : tensor<96x32xf32>) -> ("y" : tensor<96x32xf32>) {
  %half = mgn.constant dense<0.5> : tensor<f32>
  %0 = mgn.mul(%q, %half) : (tensor<96x32xf32>, tensor<f32>) -> tensor<96x32xf32>
  %1 = mgn.attention(%0, %k, %v) heads = 4, kv_heads = 2, causal = true, scale = 0.5 : (tensor<96x32xf32>, tensor<96x16xf32>, tensor<96x16xf32>) -> tensor<96x32xf32>
  %2 = mgn.add(%1, %x) : tensor<96x32xf32>
  mgn.return %2 : tensor<96x32xf32>
}
