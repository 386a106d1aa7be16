// The server of the contract: it needs the password in a file, and keeps what it is sent in a volume.
package main

import (
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if len(os.Args) > 1 {
		panic("no " + os.Args[1])
	}
	err := http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := os.ReadFile("/etc/part/password")
		if _, got, _ := r.BasicAuth(); err != nil || got != strings.TrimSpace(string(want)) {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPut {
			text, _ := io.ReadAll(r.Body)
			if err := os.WriteFile("/data/held", text, 0o600); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
			return
		}
		text, _ := os.ReadFile("/data/held")
		_, _ = w.Write(text)
	}))
	println(err.Error())
	os.Exit(1)
}
