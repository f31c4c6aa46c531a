// RUN: mgn-opt -p choose-schedules --device nvidia-h200 %s | filecheck %s
// RUN: mgn-opt -p choose-schedules --device cpu %s | filecheck %s --check-prefix=CPU

// A kernel runs on the matrix unit if it says so, and not for what it computes; a device without a
// unit does without.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {matrix = "tf32"} schedule {variant = "matrix tiles", tile_down = 1 : i64,
// CHECK-SAME: item_rows = 32 : i64, item_columns = 32 : i64, slices = 4 : i64, chunks = 16 : i64,
// CHECK-SAME: matrix = "tf32"
// CHECK:      fusion.kernel contraction
// CHECK-SAME: schedule {variant = "tiles", tile_down = {{[0-9]+}} : i64, tile_across
// CHECK-NOT:  matrix =

// CPU:      fusion.kernel contraction
// CPU-SAME: arranged {matrix = "tf32"} schedule {variant = "packed panels", width = 16 : i64, tile_vectors = 2 : i64, tile_rows =
// CPU-NOT:  matrix =
mgn.graph @g("a" = %a : tensor<64x64xf32>, "b" = %b : tensor<64x64xf32>) -> ("y" : tensor<64x64xf32>, "z" : tensor<64x64xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<64x64xf32>, %q = %b : tensor<64x64xf32>) -> (tensor<64x64xf32>) arranged {matrix = "tf32"} {
    %l = mgn.round_tf32(%p) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = mgn.round_tf32(%q) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %m = mgn.matmul(%l, %r) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.return %m : tensor<64x64xf32>
  }
  %1 = fusion.kernel contraction (%p = %a : tensor<64x64xf32>, %q = %b : tensor<64x64xf32>) -> (tensor<64x64xf32>) {
    %l = mgn.round_tf32(%p) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = mgn.round_tf32(%q) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %m = mgn.matmul(%l, %r) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.return %m : tensor<64x64xf32>
  }
  mgn.return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}
