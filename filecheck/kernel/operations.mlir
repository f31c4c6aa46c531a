// RUN: mgn-opt %s | mgn-opt -f mlir - | filecheck %s

// CHECK: kernel.func @places(%y: memref<64xi32>) access [write] global [64, 1, 1] local [16, 1, 1] {
kernel.func @places(%y : memref<64xi32>) access [write] global [64, 1, 1] local [16, 1, 1] {
  // CHECK-NEXT: %i = kernel.global_id 0
  %i = kernel.global_id 0
  // CHECK-NEXT: kernel.local_id 1
  %l = kernel.local_id 1
  // CHECK-NEXT: kernel.group_id 2
  %g = kernel.group_id 2
  // CHECK-NEXT: kernel.global_size 0
  %n = kernel.global_size 0
  // CHECK-NEXT: kernel.local_size 0
  %m = kernel.local_size 0
  // CHECK-NEXT: kernel.num_groups 0
  %k = kernel.num_groups 0
  // CHECK-NEXT: arith.index_cast %i : index to i32
  %v = arith.index_cast %i : index to i32
  // CHECK-NEXT: memref.store %v, %y[%i] : memref<64xi32>
  memref.store %v, %y[%i] : memref<64xi32>
  // CHECK-NEXT: kernel.return
  kernel.return
}

// CHECK: kernel.func @shared(%x: memref<256xf32>, %y: memref<256xf32>) access [read, read_write] global [64, 1, 1] local [64, 1, 1] noalias attributes {tile = 4 : i64} {
kernel.func @shared(%x : memref<256xf32>, %y : memref<256xf32>) access [read, read_write]
    global [64, 1, 1] local [64, 1, 1] noalias attributes {tile = 4 : i64} {
  // CHECK-NEXT: %m = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
  %m = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
  // CHECK-NEXT: %p = memref.alloca() : memref<4xf32, #kernel.space<private>>
  %p = memref.alloca() : memref<4xf32, #kernel.space<private>>
  %zero = arith.constant 0 : index
  // CHECK: %e = kernel.async_copy %x[%zero], %m[%zero] count 256 : memref<256xf32>, memref<256xf32, #kernel.space<local>>
  %e = kernel.async_copy %x[%zero], %m[%zero] count 256 : memref<256xf32>, memref<256xf32, #kernel.space<local>>
  // CHECK-NEXT: kernel.async_wait %e
  kernel.async_wait %e
  // CHECK-NEXT: kernel.await_stages
  kernel.await_stages
  // CHECK-NEXT: kernel.barrier
  kernel.barrier
  // CHECK-NEXT: kernel.prefetch %x[%zero] level 2 : memref<256xf32>
  kernel.prefetch %x[%zero] level 2 : memref<256xf32>
  // CHECK-NEXT: kernel.prefetch %x[%zero] level 1 write : memref<256xf32>
  kernel.prefetch %x[%zero] level 1 write : memref<256xf32>
  %i = kernel.local_id 0
  %a = memref.load %m[%i] : memref<256xf32, #kernel.space<local>>
  // CHECK: %v = kernel.from_elements %a, %a : vector<2xf32>
  %v = kernel.from_elements %a, %a : vector<2xf32>
  %indices = arith.constant dense<[3, 1]> : vector<2xi32>
  // CHECK: %w = kernel.gather %x[%indices] : memref<256xf32>, vector<2xi32> -> vector<2xf32>
  %w = kernel.gather %x[%indices] : memref<256xf32>, vector<2xi32> -> vector<2xf32>
  // CHECK: %r = kernel.remf %w, %w : vector<2xf32>
  %r = kernel.remf %w, %w : vector<2xf32>
  %s = arith.addf %v, %w : vector<2xf32>
  vector.store %s, %y[%i] : memref<256xf32>, vector<2xf32>
  kernel.return
}

// CHECK: kernel.func @lanes
kernel.func @lanes(%y : memref<64xf32>, %w : memref<64xi32>) access [read_write, read_write] global [64, 1, 1] local [32, 1, 1] {
  %i = kernel.global_id 0
  %x = memref.load %y[%i] : memref<64xf32>
  // CHECK: %size = kernel.sub_group_size
  %size = kernel.sub_group_size
  // CHECK-NEXT: %group = kernel.sub_group_id
  %group = kernel.sub_group_id
  // CHECK-NEXT: %lane = kernel.sub_group_lane
  %lane = kernel.sub_group_lane
  // CHECK-NEXT: %r = kernel.sub_group_reduce add %x : f32
  %r = kernel.sub_group_reduce add %x : f32
  // CHECK-NEXT: %s = kernel.sub_group_shuffle %r, %lane : f32
  %s = kernel.sub_group_shuffle %r, %lane : f32
  // CHECK-NEXT: %b = kernel.sub_group_broadcast %s, %lane : f32
  %b = kernel.sub_group_broadcast %s, %lane : f32
  %c = kernel.local_alloc : memref<256xi32, #kernel.space<local>>
  // CHECK: kernel.count %c[%i] : memref<256xi32, #kernel.space<local>>
  kernel.count %c[%i] : memref<256xi32, #kernel.space<local>>
  // CHECK-NEXT: %n = kernel.count_in_order %c[%i] bits 8 : memref<256xi32, #kernel.space<local>>
  %n = kernel.count_in_order %c[%i] bits 8 : memref<256xi32, #kernel.space<local>>
  %f = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
  // CHECK: %t = kernel.add_in_order %x, %f[%i] marks %c turn %n : memref<256xf32, #kernel.space<local>>, memref<256xi32, #kernel.space<local>>
  %t = kernel.add_in_order %x, %f[%i] marks %c turn %n : memref<256xf32, #kernel.space<local>>, memref<256xi32, #kernel.space<local>>
  // CHECK-NEXT: kernel.combine_at max %n, %c[%i] : memref<256xi32, #kernel.space<local>>
  kernel.combine_at max %n, %c[%i] : memref<256xi32, #kernel.space<local>>
  // CHECK-NEXT: kernel.combine_at add %n, %w[%i] : memref<64xi32>
  kernel.combine_at add %n, %w[%i] : memref<64xi32>
  kernel.return
}

// CHECK: kernel.func @matrix_unit
kernel.func @matrix_unit(%x : memref<512xbf16>) access [read] global [32, 1, 1] local [32, 1, 1] {
  %m = kernel.local_alloc : memref<512xbf16, #kernel.space<local>>
  %l = kernel.sub_group_lane
  %eight = arith.constant 8 : index
  %i = arith.muli %l, %eight : index
  // CHECK: kernel.copy_chunk %x[%i], %m[%i] count 8 : memref<512xbf16>, memref<512xbf16, #kernel.space<local>>
  kernel.copy_chunk %x[%i], %m[%i] count 8 : memref<512xbf16>, memref<512xbf16, #kernel.space<local>>
  // CHECK-NEXT: kernel.copy_chunk %x[%i], %m[%i] count 4 valid %eight : memref<512xbf16>
  kernel.copy_chunk %x[%i], %m[%i] count 4 valid %eight : memref<512xbf16>, memref<512xbf16, #kernel.space<local>>
  // CHECK-NEXT: kernel.commit_copies
  kernel.commit_copies
  // CHECK-NEXT: kernel.wait_copies 0
  kernel.wait_copies 0
  kernel.barrier
  // CHECK: %p = kernel.load_matrix %m[%i] : memref<512xbf16, #kernel.space<local>> -> vector<4xi32>
  %p = kernel.load_matrix %m[%i] : memref<512xbf16, #kernel.space<local>> -> vector<4xi32>
  // CHECK-NEXT: %t = kernel.load_matrix transposed %m[%i] : memref<512xbf16, #kernel.space<local>> -> vector<4xi32>
  %t = kernel.load_matrix transposed %m[%i] : memref<512xbf16, #kernel.space<local>> -> vector<4xi32>
  %q = vector.shuffle %t, %t [0, 1] : vector<4xi32>, vector<4xi32>
  %c = arith.constant dense<0.0> : vector<4xf32>
  // CHECK: %d = kernel.mma m16n8k16_bf16 %p, %q, %c : vector<4xi32>, vector<2xi32>, vector<4xf32>
  %d = kernel.mma m16n8k16_bf16 %p, %q, %c : vector<4xi32>, vector<2xi32>, vector<4xf32>
  // CHECK-NEXT: %r = kernel.round_tf32 %d : vector<4xf32>
  %r = kernel.round_tf32 %d : vector<4xf32>
  %h = vector.load %x[%i] : memref<512xbf16>, vector<8xbf16>
  // CHECK: %k = kernel.pack %h : vector<8xbf16> -> vector<4xi32>
  %k = kernel.pack %h : vector<8xbf16> -> vector<4xi32>
  // CHECK-NEXT: %n = kernel.unpack %k : vector<4xi32> -> vector<8xbf16>
  %n = kernel.unpack %k : vector<4xi32> -> vector<8xbf16>
  // CHECK-NEXT: %n16 = kernel.unpack %k : vector<4xi32> -> vector<8xf16>
  %n16 = kernel.unpack %k : vector<4xi32> -> vector<8xf16>
  // CHECK-NEXT: kernel.publish_copies
  kernel.publish_copies
  // CHECK-NEXT: %s, %u = kernel.group_mma %m[%i, %l] steps 2 parts [0, 8192] adds %d, %r : memref<512xbf16, #kernel.space<local>>, vector<4xf32>, vector<4xf32> -> vector<4xf32>, vector<4xf32>
  %s, %u = kernel.group_mma %m[%i, %l] steps 2 parts [0, 8192] adds %d, %r : memref<512xbf16, #kernel.space<local>>, vector<4xf32>, vector<4xf32> -> vector<4xf32>, vector<4xf32>
  // CHECK-NEXT: %held = kernel.group_mma_held %k, %k times %m[%l] part 8192 adds %s : vector<4xi32>, vector<4xi32> times memref<512xbf16, #kernel.space<local>> adds vector<4xf32> -> vector<4xf32>
  %held = kernel.group_mma_held %k, %k times %m[%l] part 8192 adds %s : vector<4xi32>, vector<4xi32> times memref<512xbf16, #kernel.space<local>> adds vector<4xf32> -> vector<4xf32>
  // CHECK-NEXT: kernel.wait_products 1
  kernel.wait_products 1
  // CHECK-NEXT: %v, %w = kernel.wait_products 0 of %s, %u : vector<4xf32>, vector<4xf32>
  %v, %w = kernel.wait_products 0 of %s, %u : vector<4xf32>, vector<4xf32>
  kernel.return
}
