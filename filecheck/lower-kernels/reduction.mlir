// RUN: mgn-opt -p choose-schedules,lower-kernels %s | filecheck %s

// Short rows are walked in pairs. The exponentials of a row are computed once: they wait in a private array for the division.
// CHECK:       kernel.func @reduction_exp_sum_div_0(%p: memref<256xf32>, %out: memref<256xf32>)
// CHECK:       [[ARRAY:%.+]] = memref.alloca() : memref<32xf32, #kernel.space<private>>
// CHECK:       [[SUM:%.+]], {{%.+}} = scf.for {{.*}} iter_args([[HELD:%[0-9]+]] = {{.*}}) -> (vector<16xf32>, vector<16xf32>) {
// CHECK:         [[EXP:%.+]] = math.exp {{.*}} : vector<16xf32>
// CHECK-NEXT:    [[NEXT:%.+]] = arith.addf [[HELD]], [[EXP]] : vector<16xf32>
// CHECK:         vector.store [[EXP]], [[ARRAY]]
// CHECK:         scf.yield [[NEXT]], {{%.+}} : vector<16xf32>, vector<16xf32>
// CHECK:       vector.reduction <add>, [[SUM]] : vector<16xf32> into f32
// CHECK-NOT:   math.exp
// CHECK:       vector.load [[ARRAY]]
// CHECK:       arith.divf
// CHECK:       vector.store {{.*}}, %out
mgn.graph @g("x" = %x : tensor<8x32xf32>) -> ("y" : tensor<8x32xf32>) {
  %0 = fusion.kernel reduction (%p = %x : tensor<8x32xf32>) -> (tensor<8x32xf32>) {
    %e = mgn.exp(%p) : tensor<8x32xf32>
    %s = mgn.sum(%e) axis = [1], keepdims = true : (tensor<8x32xf32>) -> tensor<8x1xf32>
    %d = mgn.div(%e, %s) : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    fusion.return %d : tensor<8x32xf32>
  }
  mgn.return %0 : tensor<8x32xf32>
}
