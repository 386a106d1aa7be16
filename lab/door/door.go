// Package door carries the source of the program that serves the names of a lab: it terminates TLS and forwards to what clusters offer.
package door

import (
	"embed"
	"io/fs"
)

// Component is the name of the program's image, and Program its file in there.
const (
	Component = "door"
	Program   = "/door"
)

// Module is the module path of the program, GoMod its go.mod. It uses only the standard library.
const (
	Module = "homelab/lab/door"
	GoMod  = "module " + Module + "\n\ngo 1.26\n"
)

//go:embed authority/authority.go entrance/host.go entrance/objects.go entrance/routes.go entrance/table.go program/main.go proxy/config.go proxy/page.go proxy/server.go
//go:embed via/netlink_linux.go via/netlink_other.go via/via.go watch/watch.go
var source embed.FS

// Source returns the module's source, without tests.
func Source() fs.FS { return source }
