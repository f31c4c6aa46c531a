// RUN: mgn-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{access lists 1 entries for 2 arguments}}
kernel.func @access(%x: memref<4xf32>, %y: memref<4xf32>) access [read] global [4, 1, 1] local [1, 1, 1] {
  kernel.return
}

// -----

// expected-error@+1 {{global size 6 is not a multiple of local size 4 in dimension 0}}
kernel.func @sizes() access [] global [6, 1, 1] local [4, 1, 1] {
  kernel.return
}

// -----

// expected-error@+1 {{argument 0 must be flat and of static length}}
kernel.func @flat(%x: memref<4x4xf32>) access [read] global [4, 1, 1] local [1, 1, 1] {
  kernel.return
}

// -----

kernel.func @dimension() access [] global [4, 1, 1] local [1, 1, 1] {
  // expected-error@+1 {{dimension must be 0, 1 or 2, not 3}}
  %i = kernel.global_id 3
  kernel.return
}

// -----

kernel.func @branch(%c: memref<1xi1>) access [read] global [4, 1, 1] local [4, 1, 1] {
  %i = kernel.local_id 0
  %t = memref.load %c[%i] : memref<1xi1>
  scf.if %t {
    // expected-error@+1 {{kernel.barrier inside scf.if: every work-item of the group must reach it}}
    kernel.barrier
  }
  kernel.return
}

// -----

kernel.func @space() access [] global [4, 1, 1] local [4, 1, 1] {
  // expected-error@+1 {{kernel.local_alloc makes #kernel.space<local> memory}}
  %m = kernel.local_alloc : memref<4xf32>
  kernel.return
}

// -----

kernel.func @combined_floats(%x: memref<4xf32>) access [read_write] global [4, 1, 1] local [4, 1, 1] {
  %i = kernel.local_id 0
  %one = arith.constant 1 : i32
  // expected-error@+1 {{kernel.combine_at combines in global or local i32, not memref<4xf32>}}
  kernel.combine_at max %one, %x[%i] : memref<4xf32>
  kernel.return
}

// -----

kernel.func @least(%x: memref<4xi32>) access [read_write] global [4, 1, 1] local [4, 1, 1] {
  %i = kernel.local_id 0
  %one = arith.constant 1 : i32
  // expected-error@+1 {{kernel.combine_at knows add and max, not min}}
  kernel.combine_at min %one, %x[%i] : memref<4xi32>
  kernel.return
}
