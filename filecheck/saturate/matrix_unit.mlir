// RUN: mgn-opt --device nvidia-h200 -p saturate,choose-schedules %s | filecheck %s
// RUN: mgn-opt -p saturate %s | filecheck %s --check-prefix=CPU

// The kernel that is extracted says which unit it was priced for, and is scheduled for that.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {matrix = "tf32"} schedule {{.*}} matrix = "tf32"
// CHECK:        mgn.relu

// CPU:     fusion.kernel contraction
// CPU-NOT: arranged
mgn.graph @g("x" = %x : tensor<512x512xf32>, "w" = %w : tensor<512x512xf32>) -> ("y" : tensor<512x512xf32>) {
  %0 = mgn.round_tf32(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = mgn.round_tf32(%w) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = mgn.matmul(%0, %1) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = mgn.relu(%2) : tensor<512x512xf32>
  mgn.return %3 : tensor<512x512xf32>
}
