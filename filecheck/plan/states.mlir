// RUN: mgn-opt --split-input-file --verify-diagnostics %s

// A state's next value lies where the state does.
kernel.func @double(%in: memref<4xf32>, %out: memref<4xf32>) access [read, write] global [4, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 1>]} {
  kernel.return
}
plan.program @good arena 256 {
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  %t = plan.view offset 0 : memref<4xf32>
  plan.launch @double(%k, %t)
  %k1 = plan.next %k : memref<4xf32>
  plan.copy %t to %k1
  plan.output "y" %t tensor<4xf32>
}

// -----

kernel.func @double(%in: memref<4xf32>, %out: memref<4xf32>) access [read, write] global [4, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 1>]} {
  kernel.return
}
// expected-error@+1 {{launch of @double reads state "k" before the run, which plan.copy has written over}}
plan.program @late arena 512 {
  %x = plan.input "x" tensor<4xf32> : memref<4xf32>
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  %t = plan.view offset 0 : memref<4xf32>
  %k1 = plan.next %k : memref<4xf32>
  plan.copy %x to %k1
  plan.launch @double(%k, %t)
}

// -----

// expected-error@+1 {{state "k" after the run reads the next value of state "k", which nothing has written}}
plan.program @unwritten arena 256 {
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  %k1 = plan.next %k : memref<4xf32>
}

// -----

// expected-error@+1 {{plan.copy: argument 1 is written and must be a view of the arena, or a state's next value}}
plan.program @directly arena 256 {
  %x = plan.input "x" tensor<4xf32> : memref<4xf32>
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  plan.copy %x to %k
}

// -----

// expected-error@+1 {{plan.state: 'k' is there twice}}
plan.program @twice arena 256 {
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  %l = plan.state @k tensor<4xf32> : memref<4xf32>
}

// -----

kernel.func @part(%in: memref<4xf32>, %out: memref<4xf32>) access [read, write] global [1, 1, 1] local [1, 1, 1] attributes {in_place = [array<i64: 0, 1>], starts_as = [array<i64: 0, 1>]} {
  kernel.return
}
// expected-error@+1 {{launch of @part, which writes a part, reads %t (bytes 0 to 16), which nothing has written}}
plan.program @part_of_nothing arena 256 {
  %k = plan.state @k tensor<4xf32> : memref<4xf32>
  %t = plan.view offset 0 : memref<4xf32>
  plan.launch @part(%k, %t)
}
