// Box is all that is in the image that the end-to-end test runs: "box true" succeeds, "box wait" stays, "box caps" prints its bounding set.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	switch os.Args[1] {
	case "wait":
		_, _ = os.Stdin.Read(make([]byte, 1)) // its input is held open by docker run --interactive
	case "caps":
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			panic(err)
		}
		_, rest, _ := strings.Cut(string(status), "CapBnd:\t")
		set, _, _ := strings.Cut(rest, "\n")
		fmt.Println(set)
	}
}
