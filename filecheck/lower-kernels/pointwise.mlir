// RUN: mgn-opt -p choose-schedules,lower-kernels %s | filecheck %s

// Two kernels of one structure share a function; each element is written where its input was read.
// CHECK:       kernel.func @pointwise_add_relu_0(%p: memref<256xf32>, %q: memref<64xf32>, %out: memref<256xf32>)
// CHECK-SAME:    access [read, read, write] global [1, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 2>], schedule = {variant = "rows", width = 16 : i64, row = 64 : i64, {{.*}}}}
// CHECK:       [[ITEM:%.+]] = kernel.global_id 0
// CHECK:       scf.for [[ROW:%.+]] = {{.*}} {
// CHECK-NEXT:    scf.for [[VECTOR:%.+]] = {{.*}} {
// CHECK-NEXT:    [[COLUMN:%.+]] = arith.muli [[VECTOR]], {{.*}} : index
// CHECK-NEXT:    [[FIRST:%.+]] = arith.muli [[ROW]], {{.*}} : index
// CHECK-NEXT:    [[PLACE:%.+]] = arith.addi [[COLUMN]], [[FIRST]] : index
// CHECK-NEXT:    [[X:%.+]] = vector.load %p[[[PLACE]]] : memref<256xf32>, vector<16xf32>
// CHECK-NEXT:    [[BIAS:%.+]] = vector.load %q[[[COLUMN]]] : memref<64xf32>, vector<16xf32>
// CHECK-NEXT:    [[SUM:%.+]] = arith.addf [[X]], [[BIAS]] : vector<16xf32>
// CHECK-NEXT:    [[RELU:%.+]] = arith.maximumf [[SUM]], {{.*}} : vector<16xf32>
// CHECK-NEXT:    vector.store [[RELU]], %out[[[PLACE]]] : memref<256xf32>, vector<16xf32>
// CHECK:       mgn.graph
// CHECK-NEXT:    [[FIRST:%.+]] = fusion.launch @pointwise_add_relu_0(%x, %b)
// CHECK-NEXT:    [[SECOND:%.+]] = fusion.launch @pointwise_add_relu_0([[FIRST]], %b)
// CHECK-NEXT:    mgn.return [[SECOND]]
mgn.graph @g("x" = %x : tensor<4x64xf32>, "b" = %b : tensor<64xf32>) -> ("y" : tensor<4x64xf32>) {
  %0 = fusion.kernel pointwise (%p = %x : tensor<4x64xf32>, %q = %b : tensor<64xf32>) -> (tensor<4x64xf32>) {
    %s = mgn.add(%p, %q) : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    %r = mgn.relu(%s) : tensor<4x64xf32>
    fusion.return %r : tensor<4x64xf32>
  }
  %1 = fusion.kernel pointwise (%m = %0 : tensor<4x64xf32>, %n = %b : tensor<64xf32>) -> (tensor<4x64xf32>) {
    %s = mgn.add(%m, %n) : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    %r = mgn.relu(%s) : tensor<4x64xf32>
    fusion.return %r : tensor<4x64xf32>
  }
  mgn.return %1 : tensor<4x64xf32>
}
