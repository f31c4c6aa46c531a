// RUN: mgn-opt %s -p 'convert-precision{precision=bf16}' | filecheck %s
// RUN: mgn-opt %s -p 'convert-precision{precision=tf32}' | filecheck %s --check-prefix=TF32
// RUN: mgn-opt %s -p convert-precision | filecheck %s --check-prefix=F32

mgn.graph @g("x" = %x : tensor<4x8xf32>, "w" = %w : tensor<2x8xf32>) -> ("y" : tensor<4x2xf32>) {
  %t = mgn.transpose(%w) perm = [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %y = mgn.matmul(%x, %t) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  mgn.return %y : tensor<4x2xf32>
}
// CHECK-DAG: mgn.cast(%x) T = bf16 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-DAG: mgn.cast(%w) T = bf16 : (tensor<2x8xf32>) -> tensor<2x8xbf16>
// CHECK: mgn.transpose(%{{.*}}) perm = [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32>
// CHECK: mgn.matmul
// TF32-COUNT-2: mgn.round_tf32
// TF32-NOT: mgn.round_tf32
// F32-NOT: mgn.round_tf32
