// Box is the only program in the image of the end-to-end test: "box true" succeeds, "box wait" waits, "box caps" prints its bounding set.
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
