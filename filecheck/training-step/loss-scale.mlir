// RUN: mgn-opt -p 'training-step{optimizer=sgd lr=0.5 loss-scale=dynamic}' %s | filecheck %s
// RUN: mgn-opt -p 'training-step{optimizer=sgd lr=0.5 loss-scale=8}' %s | filecheck %s --check-prefix=FIXED

mgn.param @w : tensor<4xf32> = ones()
mgn.graph @g("x" = %x: tensor<4xf32>) -> ("loss" : tensor<f32>) {
  %w = mgn.read @w : tensor<4xf32>
  %y = mgn.mul(%x, %w) : tensor<4xf32>
  %loss = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
  mgn.return %loss : tensor<f32>
}

// CHECK:      mgn.state @optimizer.loss_scale : tensor<f32> = constant(65536.0)
// CHECK:      mgn.graph @g("x" = %x: tensor<4xf32>) -> ("loss" : tensor<f32>, "skipped" : tensor<i32>, "loss_scale" : tensor<f32>) {
// CHECK:        %[[W:.*]] = mgn.read_state @w : tensor<4xf32>
// CHECK:        %[[SCALE:.*]] = mgn.read_state @optimizer.loss_scale : tensor<f32>
// CHECK-NEXT:   %[[LARGE:.*]] = mgn.mul(%{{.*}}, %[[SCALE]]) : tensor<f32>
// CHECK:        %[[G:.*]] = mgn.grad %[[LARGE]] of %{{.*}} : tensor<f32>, tensor<4xf32>
// CHECK:        %[[SHARE:.*]] = mgn.div(%{{.*}}, %{{.*}}) : tensor<f32>
// CHECK-NEXT:   %{{.*}} = mgn.mul(%[[G]], %[[G]]) : tensor<4xf32>
// CHECK:        %[[FINITE:.*]] = mgn.le(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<f32>) -> tensor<i1>
// CHECK-NEXT:   %{{.*}} = mgn.mul(%[[G]], %[[SHARE]]) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK:        %[[KEPT:.*]] = mgn.where(%[[FINITE]], %{{.*}}, %[[W]]) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   mgn.write_state @w, %[[KEPT]] : tensor<4xf32>
// CHECK:        mgn.write_state @optimizer.skipped, %{{.*}} : tensor<i32>
// CHECK:        mgn.write_state @optimizer.loss_scale, %{{.*}} : tensor<f32>
// CHECK:        mgn.write_state @optimizer.good_steps, %{{.*}} : tensor<i32>

// FIXED-NOT:  @optimizer.loss_scale
// FIXED:      ("loss" : tensor<f32>, "skipped" : tensor<i32>) {
// FIXED:        mgn.constant dense<8.000000e+00> : tensor<f32>
// FIXED:        mgn.write_state @optimizer.skipped, %{{.*}} : tensor<i32>
