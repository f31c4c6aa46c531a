// RUN: mgn-opt %s -p simplify,saturate,choose-schedules | filecheck %s
// RUN: mgn-opt %s -p simplify,saturate,choose-schedules --device nvidia-h200 | filecheck %s --check-prefix GPU

// A convolution, a bias, a rectifier and a pool are one kernel, which writes the pooled image alone.
// CHECK:       mgn.graph @block
// CHECK:       fusion.kernel contraction {{.*}} -> (tensor<1x32x14x14xf32>) {{.*}}variant = "windows"
// CHECK:       mgn.matmul
// CHECK:       mgn.relu
// CHECK:       mgn.windows({{.*}}) sizes = [2, 2], strides = [2, 2]
// CHECK:       mgn.max_reduce
// CHECK-NOT:   fusion.kernel
// CHECK:       mgn.return
// GPU:         mgn.graph @block
// GPU:         fusion.kernel contraction {{.*}} -> (tensor<1x32x14x14xf32>) {{.*}}variant = "tiles"
// GPU:         mgn.relu
// GPU:         mgn.max_reduce
// GPU-NOT:     fusion.kernel
// GPU:         mgn.return
mgn.graph @block("x" = %x : tensor<1x16x28x28xf32>, "w" = %w : tensor<32x16x3x3xf32>, "b" = %b : tensor<32xf32>) -> ("y" : tensor<1x32x14x14xf32>) {
  %0 = mgn.conv2d(%x, %w, %b) stride = [1, 1], padding = [[1, 1], [1, 1]], dilation = [1, 1] : (tensor<1x16x28x28xf32>, tensor<32x16x3x3xf32>, tensor<32xf32>) -> tensor<1x32x28x28xf32>
  %1 = mgn.relu(%0) : tensor<1x32x28x28xf32>
  %2 = mgn.max_pool2d(%1) kernel = [2, 2], stride = [2, 2], padding = [[0, 0], [0, 0]], dilation = [1, 1] : (tensor<1x32x28x28xf32>) -> tensor<1x32x14x14xf32>
  mgn.return %2 : tensor<1x32x14x14xf32>
}

// Windows that overlap share places: the pool is a kernel of its own.
// CHECK:       mgn.graph @overlapping
// CHECK:       fusion.kernel contraction
// CHECK:       fusion.kernel reduction
// CHECK:       mgn.max_reduce
// GPU:         mgn.graph @overlapping
// GPU:         fusion.kernel contraction
// GPU:         fusion.kernel reduction
// GPU:         mgn.max_reduce
mgn.graph @overlapping("x" = %x : tensor<1x16x28x28xf32>, "w" = %w : tensor<32x16x3x3xf32>) -> ("y" : tensor<1x32x14x14xf32>) {
  %0 = mgn.conv2d(%x, %w) stride = [1, 1], padding = [[1, 1], [1, 1]], dilation = [1, 1] : (tensor<1x16x28x28xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x28x28xf32>
  %1 = mgn.max_pool2d(%0) kernel = [3, 3], stride = [2, 2], padding = [[1, 1], [1, 1]], dilation = [1, 1] : (tensor<1x32x28x28xf32>) -> tensor<1x32x14x14xf32>
  mgn.return %1 : tensor<1x32x14x14xf32>
}

// So it is where the convolved image is a result too: it is written, and not computed twice.
// CHECK:       mgn.graph @both
// CHECK:       fusion.kernel contraction {{.*}} -> (tensor<1x32x28x28xf32>)
// CHECK:       fusion.kernel reduction
// CHECK-NOT:   fusion.kernel
// CHECK:       mgn.return
mgn.graph @both("x" = %x : tensor<1x16x28x28xf32>, "w" = %w : tensor<32x16x3x3xf32>) -> ("y" : tensor<1x32x28x28xf32>, "z" : tensor<1x32x14x14xf32>) {
  %0 = mgn.conv2d(%x, %w) stride = [1, 1], padding = [[1, 1], [1, 1]], dilation = [1, 1] : (tensor<1x16x28x28xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x28x28xf32>
  %1 = mgn.relu(%0) : tensor<1x32x28x28xf32>
  %2 = mgn.max_pool2d(%1) kernel = [2, 2], stride = [2, 2], padding = [[0, 0], [0, 0]], dilation = [1, 1] : (tensor<1x32x28x28xf32>) -> tensor<1x32x14x14xf32>
  mgn.return %1, %2 : tensor<1x32x28x28xf32>, tensor<1x32x14x14xf32>
}
