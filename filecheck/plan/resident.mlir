// RUN: mgn-opt %s | mgn-opt - -f mlir | filecheck %s

kernel.func @copy(%x : memref<6xf32>, %y : memref<6xf32>) access [read, write] global [6, 1, 1] local [1, 1, 1] {
  kernel.return
}

// CHECK-LABEL: plan.program @p arena 512
// CHECK:         plan.resident @p_resident_0 items 256 attributes {saved_seconds = 1.000000e-05 : f64} {
// CHECK-NEXT:      plan.launch @copy(%x, %a)
// CHECK-NEXT:      plan.barrier
// CHECK-NEXT:      plan.launch @copy(%a, %b)
// CHECK-NEXT:    }
// CHECK-NEXT:    plan.output "y" %b tensor<6xf32>
plan.program @p arena 512 {
  %x = plan.input "x" tensor<6xf32> : memref<6xf32>
  %a = plan.view offset 0 : memref<6xf32>
  %b = plan.view offset 256 : memref<6xf32>
  plan.resident @p_resident_0 items 256 attributes {saved_seconds = 1.0e-5 : f64} {
    plan.launch @copy(%x, %a)
    plan.barrier
    plan.launch @copy(%a, %b)
  }
  plan.output "y" %b tensor<6xf32>
}
