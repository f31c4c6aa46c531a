// RUN: mgn-opt -p 'merge-launches{always=true}' %s | filecheck %s

kernel.func @copy(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [4096, 1, 1] local [32, 1, 1] {
  kernel.return
}
kernel.func @add(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>) access [read, read, write] global [4096, 1, 1] local [32, 1, 1] {
  kernel.return
}

// Launches that read what a parameter or an input holds need no order. One that reads what another
// one writes does, and so does one that writes where another one reads: `%c` lies where `%a` lay.

// CHECK-LABEL: plan.program @order
// CHECK:         plan.resident @order_resident_0 items 64 {
// CHECK-NEXT:      plan.launch @copy(%x, %a)
// CHECK-NEXT:      plan.launch @copy(%x, %b)
// CHECK-NEXT:      plan.barrier
// CHECK-NEXT:      plan.launch @add(%a, %b, %s)
// CHECK-NEXT:      plan.barrier
// CHECK-NEXT:      plan.launch @copy(%x, %c)
// CHECK-NEXT:    }
plan.program @order arena 1024 {
  %x = plan.input "x" tensor<64xf32> : memref<64xf32>
  %a = plan.view offset 0 : memref<64xf32>
  plan.launch @copy(%x, %a)
  %b = plan.view offset 256 : memref<64xf32>
  plan.launch @copy(%x, %b)
  %s = plan.view offset 512 : memref<64xf32>
  plan.launch @add(%a, %b, %s)
  %c = plan.view offset 0 : memref<64xf32>
  plan.launch @copy(%x, %c)
  plan.output "s" %s tensor<64xf32>
  plan.output "c" %c tensor<64xf32>
}

// A copy is no kernel, and stays between launches.

// CHECK-LABEL: plan.program @copied
// CHECK:         plan.launch @copy(%x, %a)
// CHECK-NEXT:    plan.copy %a to %b
// CHECK-NEXT:    plan.launch @copy(%b, %c)
plan.program @copied arena 1024 {
  %x = plan.input "x" tensor<64xf32> : memref<64xf32>
  %a = plan.view offset 0 : memref<64xf32>
  %b = plan.view offset 256 : memref<64xf32>
  %c = plan.view offset 512 : memref<64xf32>
  plan.launch @copy(%x, %a)
  plan.copy %a to %b
  plan.launch @copy(%b, %c)
  plan.output "c" %c tensor<64xf32>
}

// What checks look at is computed before states are written: no launch does both.

// CHECK-LABEL: plan.program @checked
// CHECK:         plan.resident @checked_resident_0 items 64 {
// CHECK-NEXT:      plan.launch @copy(%x, %a)
// CHECK-NEXT:      plan.barrier
// CHECK-NEXT:      plan.launch @copy(%a, %b)
// CHECK-NEXT:    }
// CHECK-NEXT:    plan.launch @copy(%b, %n)
plan.program @checked arena 512 {
  %x = plan.input "x" tensor<64xf32> : memref<64xf32>
  %k = plan.state @k tensor<64xf32> : memref<64xf32>
  %n = plan.next %k : memref<64xf32>
  %a = plan.view offset 0 : memref<64xf32>
  %b = plan.view offset 256 : memref<64xf32>
  plan.launch @copy(%x, %a)
  plan.launch @copy(%a, %b)
  plan.launch @copy(%b, %n)
  plan.output "mgn.check 0 all is well" %b tensor<64xf32>
}

// Small launches between two barriers are done by each group for itself.

kernel.func @norm(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [64, 1, 1] local [64, 1, 1] {
  kernel.return
}

// CHECK-LABEL: plan.program @repeated
// CHECK:         plan.launch @twice(%x, %a)
// CHECK-NEXT:    plan.barrier
// CHECK-NEXT:    plan.launch @norm(%a, %b) {everywhere}
// CHECK-NEXT:    plan.launch @twice(%b, %c)
kernel.func @twice(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [4096, 1, 1] local [32, 1, 1] {
  kernel.return
}
plan.program @repeated arena 1024 {
  %x = plan.input "x" tensor<64xf32> : memref<64xf32>
  %a = plan.view offset 0 : memref<64xf32>
  %b = plan.view offset 256 : memref<64xf32>
  %c = plan.view offset 512 : memref<64xf32>
  plan.launch @twice(%x, %a)
  plan.launch @norm(%a, %b)
  plan.launch @twice(%b, %c)
  plan.output "c" %c tensor<64xf32>
}
