package appset

import "runtime"

// InOrder calls work for 0 to n-1 on all processors, and take with each result sequentially in order. Pending results
// are bounded, and so is their memory.
func InOrder[T any](n int, work func(i int) T, take func(i int, result T)) {
	ahead := 2 * runtime.GOMAXPROCS(0)
	results := make([]chan T, n)
	start := func(i int) {
		if i >= n {
			return
		}
		results[i] = make(chan T, 1)
		go func() { results[i] <- work(i) }()
	}
	for i := range min(ahead, n) {
		start(i)
	}
	for i := range n {
		result := <-results[i]
		start(i + ahead)
		take(i, result)
	}
}
