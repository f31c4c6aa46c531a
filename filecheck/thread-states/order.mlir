// RUN: mgn-opt -p thread-states %s | filecheck %s
// RUN: mgn-opt -p thread-states,thread-states %s | filecheck %s

// A read is what was written last before it, or the argument; the last write is a result.
// CHECK:      mgn.graph @order("x" = %x: tensor<2xf32>, state "k" = %[[K:.*]]: tensor<2xf32>) -> ("old" : tensor<2xf32>, "new" : tensor<2xf32>, state "k" : tensor<2xf32>) {
// CHECK-NEXT:   %[[A:.*]] = mgn.add(%[[K]], %x)
// CHECK-NEXT:   %[[B:.*]] = mgn.mul(%[[A]], %x)
// CHECK-NEXT:   mgn.return %[[K]], %[[B]], %[[B]]
mgn.state @k : tensor<2xf32> = ones()
mgn.graph @order("x" = %x: tensor<2xf32>) -> ("old" : tensor<2xf32>, "new" : tensor<2xf32>) {
  %old = mgn.read_state @k : tensor<2xf32>
  %0 = mgn.add(%old, %x) : tensor<2xf32>
  mgn.write_state @k, %0 : tensor<2xf32>
  %1 = mgn.read_state @k : tensor<2xf32>
  %2 = mgn.mul(%1, %x) : tensor<2xf32>
  mgn.write_state @k, %2 : tensor<2xf32>
  %new = mgn.read_state @k : tensor<2xf32>
  mgn.return %old, %new : tensor<2xf32>, tensor<2xf32>
}

// A state that is written what it was is not written.
// CHECK: mgn.graph @same(state "k" = %[[K2:.*]]: tensor<2xf32>) -> ("y" : tensor<2xf32>) {
mgn.graph @same() -> ("y" : tensor<2xf32>) {
  %old = mgn.read_state @k : tensor<2xf32>
  mgn.write_state @k, %old : tensor<2xf32>
  mgn.return %old : tensor<2xf32>
}
