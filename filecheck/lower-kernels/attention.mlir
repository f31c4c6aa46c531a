// RUN: mgn-opt -p choose-schedules,lower-kernels %s | filecheck %s

// Keys are turned in local memory, 16 of them a vector; a tile of 8 rows keeps its largest scores,
// its totals and its sums there, and the keys that it visits end with the last that it sees.
// CHECK:       kernel.func @attention_attention_0(%q: memref<1024xf32>, %k: memref<1024xf32>, %v: memref<1024xf32>, %out: memref<1024xf32>)
// CHECK-SAME:  global [8, 1, 1] local [1, 1, 1]
// CHECK:       [[QUERIES:%.+]] = kernel.local_alloc : memref<128xf32, #kernel.space<local>>
// CHECK-NEXT:  [[KEYS:%.+]] = kernel.local_alloc : memref<1024xf32, #kernel.space<local>>
// CHECK-NEXT:  [[VALUES:%.+]] = kernel.local_alloc : memref<1024xf32, #kernel.space<local>>
// CHECK-NEXT:  [[WEIGHTS:%.+]] = kernel.local_alloc : memref<512xf32, #kernel.space<local>>
// CHECK-NEXT:  [[SUMS:%.+]] = kernel.local_alloc : memref<128xf32, #kernel.space<local>>
// CHECK-NEXT:  [[LARGEST:%.+]] = kernel.local_alloc : memref<8xf32, #kernel.space<local>>
// CHECK-NEXT:  [[TOTALS:%.+]] = kernel.local_alloc : memref<8xf32, #kernel.space<local>>
// CHECK:       [[Q:%.+]] = vector.load %q
// CHECK-NEXT:  vector.store [[Q]], [[QUERIES]]
// CHECK:       vector.load %k
// CHECK:       vector.shuffle
// CHECK:       vector.store {{.*}}, [[KEYS]]
// CHECK:       [[V:%.+]] = vector.load %v
// CHECK:       vector.store [[V]], [[VALUES]]
// CHECK:       vector.fma
// CHECK:       kernel.cmpi slt
// CHECK:       kernel.select
// CHECK:       math.exp2
// CHECK:       vector.fma
// CHECK:       vector.store {{.*}}, [[SUMS]]
// CHECK:       vector.store {{.*}}, %out
mgn.graph @g("a" = %a : tensor<64x16xf32>, "b" = %b : tensor<64x16xf32>, "c" = %c : tensor<64x16xf32>) -> ("y" : tensor<64x16xf32>) {
  %0 = fusion.kernel attention (%q = %a : tensor<64x16xf32>, %k = %b : tensor<64x16xf32>, %v = %c : tensor<64x16xf32>) -> (tensor<64x16xf32>) {
    %m = mgn.attention(%q, %k, %v) heads = 1, kv_heads = 1, causal = true, scale = 0.25 : (tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    fusion.return %m : tensor<64x16xf32>
  }
  mgn.return %0 : tensor<64x16xf32>
}
