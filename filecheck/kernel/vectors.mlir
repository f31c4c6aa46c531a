// RUN: mgn-opt %s | mgn-opt -f mlir - | filecheck %s

// CHECK: kernel.func @vectors
kernel.func @vectors(%x: memref<64xf32>) access [read_write] global [4, 1, 1] local [1, 1, 1] {
  %i = kernel.global_id 0
  %a = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
  // CHECK: %m = kernel.cmpf oge, %a, %a : vector<16xf32>
  %m = kernel.cmpf oge, %a, %a : vector<16xf32>
  // CHECK-NEXT: %s = kernel.select %m, %a, %a : vector<16xf32>
  %s = kernel.select %m, %a, %a : vector<16xf32>
  // CHECK-NEXT: %n = kernel.cast fptosi %s : vector<16xf32> -> vector<16xi32>
  %n = kernel.cast fptosi %s : vector<16xf32> -> vector<16xi32>
  // CHECK-NEXT: %l = kernel.cmpi slt, %n, %n : vector<16xi32>
  %l = kernel.cmpi slt, %n, %n : vector<16xi32>
  // CHECK-NEXT: %t = kernel.select %l, %s, %a : vector<16xf32>
  %t = kernel.select %l, %s, %a : vector<16xf32>
  vector.store %t, %x[%i] : memref<64xf32>, vector<16xf32>
  kernel.return
}
