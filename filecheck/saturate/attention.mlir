// RUN: mgn-opt -p saturate,choose-schedules %s | filecheck %s
// RUN: mgn-opt -p 'saturate{rules=exact}' %s | filecheck %s --check-prefix=EXACT
// RUN: mgn-opt -p 'saturate{rules=fast}' %s | filecheck %s --check-prefix=FAST

// The scale of the queries and the residual sum are part of attention's kernel; scores are not stored.
// CHECK:      mgn.graph @mixed
// CHECK-NEXT: %[[y:[a-z0-9]+]] = fusion.kernel attention ({{.*}}) -> (tensor<96x32xf32>) schedule {variant = "blocks", lanes = 16 : i64, tile_rows = 8 : i64, {{.*}}} {
// CHECK:        %[[q:[a-z0-9]+]] = mgn.mul
// CHECK-NEXT:   %[[a:[a-z0-9]+]] = mgn.attention(%[[q]], {{.*}}) heads = 4, kv_heads = 2, causal = true, scale = 0.5
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

// Naive attention of separate heads is the same kernel: nothing is turned, no scores are stored.
// CHECK:      mgn.graph @naive
// CHECK-NEXT: %[[n:[a-z0-9]+]] = fusion.kernel attention
// CHECK-NEXT:   mgn.attention({{.*}}) heads = 4, kv_heads = 4, scale = 0.125
// CHECK-NEXT:   fusion.return
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[n]]
mgn.graph @naive("q" = %q : tensor<96x256xf32>, "k" = %k : tensor<96x256xf32>, "v" = %v : tensor<96x256xf32>) -> ("y" : tensor<96x256xf32>) {
  %eighth = mgn.constant dense<0.125> : tensor<f32>
  %0 = mgn.reshape(%q) shape = [96, 4, 64] : (tensor<96x256xf32>) -> tensor<96x4x64xf32>
  %1 = mgn.reshape(%k) shape = [96, 4, 64] : (tensor<96x256xf32>) -> tensor<96x4x64xf32>
  %2 = mgn.reshape(%v) shape = [96, 4, 64] : (tensor<96x256xf32>) -> tensor<96x4x64xf32>
  %3 = mgn.transpose(%0) perm = [1, 0, 2] : (tensor<96x4x64xf32>) -> tensor<4x96x64xf32>
  %4 = mgn.transpose(%1) perm = [1, 2, 0] : (tensor<96x4x64xf32>) -> tensor<4x64x96xf32>
  %5 = mgn.transpose(%2) perm = [1, 0, 2] : (tensor<96x4x64xf32>) -> tensor<4x96x64xf32>
  %6 = mgn.matmul(%3, %4) : (tensor<4x96x64xf32>, tensor<4x64x96xf32>) -> tensor<4x96x96xf32>
  %7 = mgn.mul(%6, %eighth) : (tensor<4x96x96xf32>, tensor<f32>) -> tensor<4x96x96xf32>
  %8 = mgn.softmax(%7) axis = 2 : tensor<4x96x96xf32>
  %9 = mgn.matmul(%8, %5) : (tensor<4x96x96xf32>, tensor<4x96x64xf32>) -> tensor<4x96x64xf32>
  %10 = mgn.transpose(%9) perm = [1, 0, 2] : (tensor<4x96x64xf32>) -> tensor<96x4x64xf32>
  %11 = mgn.reshape(%10) shape = [96, 256] : (tensor<96x4x64xf32>) -> tensor<96x256xf32>
  mgn.return %11 : tensor<96x256xf32>
}

// What divides queries stays with them, as scores may overflow without it; with fast rules it is the
// scale of attention, as its inverse.
// FAST:      mgn.graph @divided
// FAST-NEXT: %[[d:[a-z0-9]+]] = fusion.kernel attention
// FAST-NEXT:   mgn.attention({{.*}}) heads = 4, kv_heads = 4, scale = 0.16666666666666666
// CHECK:      mgn.graph @divided
// CHECK-NEXT: %[[d:[a-z0-9]+]] = fusion.kernel attention
// CHECK:        mgn.div
// CHECK-NEXT:   mgn.attention({{.*}}) heads = 4, kv_heads = 4, scale = 1.0
// CHECK-NEXT:   fusion.return
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[d]]
mgn.graph @divided("q" = %q : tensor<96x32xf32>, "k" = %k : tensor<96x32xf32>, "v" = %v : tensor<96x32xf32>) -> ("y" : tensor<96x32xf32>) {
  %six = mgn.constant dense<6.0> : tensor<f32>
  %0 = mgn.div(%q, %six) : (tensor<96x32xf32>, tensor<f32>) -> tensor<96x32xf32>
  %1 = mgn.attention(%0, %k, %v) heads = 4, kv_heads = 4, scale = 1.0 : tensor<96x32xf32>
  mgn.return %1 : tensor<96x32xf32>
}
