// RUN: mgn-opt -p unpack-blocks %s | filecheck %s

// A parameter of a block format is read as its parts; others stay as they are.

// CHECK: mgn.param @w : tensor<4x64x!mgn.block<"q8_0">>
// CHECK: %0 = mgn.read @"w#q8_0.scales" : tensor<4x2xf16>
// CHECK: mgn.read @"w#q8_0.codes" : tensor<4x64xi8>
// CHECK: mgn.cast({{%[0-9]+}}) T = f32 : (tensor<4x2x32xi8>) -> tensor<4x2x32xf32>
// CHECK: mgn.mul
// CHECK: mgn.reshape({{%[0-9]+}}) shape = [4, 64]
// CHECK: mgn.read @v : tensor<64xf32>
mgn.param @w : tensor<4x64x!mgn.block<"q8_0">>
mgn.param @v : tensor<64xf32>
mgn.graph @g() -> ("y" : tensor<4xf32>) {
  %w = mgn.read @w : tensor<4x64xf32>
  %v = mgn.read @v : tensor<64xf32>
  %y = mgn.matmul(%w, %v) : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4xf32>
  mgn.return %y : tensor<4xf32>
}
