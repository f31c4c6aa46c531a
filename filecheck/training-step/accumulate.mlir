// RUN: mgn-opt -p 'training-step{optimizer=sgd lr=0.5 accumulate=4}' %s | filecheck %s

mgn.param @w : tensor<4xbf16> = ones()
mgn.graph @g("x" = %x: tensor<4xbf16>) -> ("loss" : tensor<f32>) {
  %w = mgn.read @w : tensor<4xbf16>
  %y = mgn.mul(%x, %w) : tensor<4xbf16>
  %z = mgn.cast(%y) T = f32 : (tensor<4xbf16>) -> tensor<4xf32>
  %loss = mgn.sum(%z) axis = [0] : (tensor<4xf32>) -> tensor<f32>
  mgn.return %loss : tensor<f32>
}

// CHECK:      mgn.state @w : tensor<4xbf16> = ones()
// CHECK:      mgn.state @optimizer.w.gradient : tensor<4xf32>
// CHECK:      mgn.graph @g("x" = %x: tensor<4xbf16>) -> ("loss" : tensor<f32>) {
// CHECK:        %[[NARROW:.*]] = mgn.grad %{{.*}} of %{{.*}} : tensor<f32>, tensor<4xbf16>
// CHECK:        %[[G:.*]] = mgn.cast(%[[NARROW]]) T = f32 : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK:        %[[FIRST:.*]] = mgn.eq(%{{.*}}, %{{.*}}) : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK:        %[[SUM:.*]] = mgn.add(%{{.*}}, %[[G]]) : tensor<4xf32>
// CHECK-NEXT:   %[[NEXT:.*]] = mgn.where(%[[FIRST]], %[[G]], %[[SUM]])
// CHECK-NEXT:   mgn.write_state @optimizer.w.gradient, %[[NEXT]] : tensor<4xf32>
// CHECK-NOT:    mgn.write_state @w,
// CHECK:      mgn.graph @g_update() -> ("loss" : tensor<f32>) {
// CHECK:        %[[HELD:.*]] = mgn.read_state @optimizer.w.gradient : tensor<4xf32>
// CHECK:        %[[QUARTER:.*]] = mgn.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:   %{{.*}} = mgn.mul(%[[HELD]], %[[QUARTER]]) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK:        mgn.write_state @w, %{{.*}} : tensor<4xbf16>
// CHECK:        mgn.write_state @optimizer.batches, %{{.*}} : tensor<i32>
