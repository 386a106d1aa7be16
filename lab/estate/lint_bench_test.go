package estate_test

import (
	"fmt"
	"testing"

	"homelab/lab/estate"
	"homelab/lab/lint"
)

// BenchmarkLint lints an estate of addons on clusters.
func BenchmarkLint(b *testing.B) {
	for _, size := range [][2]int{{100, 25}, {100, 50}} {
		files := large(size[0], size[1])
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			for range b.N {
				est, apps, problems, err := estate.Inspect(files, "", "bench")
				if err != nil || len(problems) > 0 {
					b.Fatal(problems, err)
				}
				if res := lint.Run(lint.Model{Estate: est, Apps: apps}, lint.Selection{}); len(res.Findings) > 0 {
					b.Fatal(res.Findings[0])
				}
			}
		})
	}
}
