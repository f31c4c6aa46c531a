// RUN: mgn-opt -p 'rematerialise{memory=1400},plan-memory' %s | filecheck %s

kernel.func @grow(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write] global [64, 1, 1] local [1, 1, 1] attributes {schedule = {picoseconds = 1000 : i64}} {
  kernel.return
}
kernel.func @wide(%x : memref<64xf32>, %y : memref<192xf32>) access [read, write] global [64, 1, 1] local [1, 1, 1] attributes {schedule = {picoseconds = 9000 : i64}} {
  kernel.return
}
kernel.func @narrow(%x : memref<192xf32>, %y : memref<64xf32>) access [read, write] global [64, 1, 1] local [1, 1, 1] attributes {schedule = {picoseconds = 9000 : i64}} {
  kernel.return
}
kernel.func @mul(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>) access [read, read, write] global [64, 1, 1] local [1, 1, 1] attributes {schedule = {picoseconds = 1000 : i64}} {
  kernel.return
}

// The first value does not wait while the wide one is there: it is made again.
// CHECK-LABEL: plan.program @g arena 1024 attributes
// CHECK-SAME:    budget = 1400 : i64, peak = 1280 : i64, repeated = 1 : i64, repeated_nanoseconds = 1 : i64
// CHECK:         plan.launch @grow(%x, %a)
// CHECK:         plan.launch @wide(%b, %c)
// CHECK:         plan.launch @narrow(%c, %d)
// CHECK:         plan.launch @grow(%x, %[[A:.*]]) {again}
// CHECK:         plan.launch @mul(%d, %[[A]], %e)
mgn.graph @g("x" = %x : tensor<64xf32>) -> ("y" : tensor<64xf32>) {
  %a = fusion.launch @grow(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = fusion.launch @grow(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %c = fusion.launch @wide(%b) : (tensor<64xf32>) -> tensor<192xf32>
  %d = fusion.launch @narrow(%c) : (tensor<192xf32>) -> tensor<64xf32>
  %e = fusion.launch @mul(%d, %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  mgn.return %e : tensor<64xf32>
}
