// Package gate carries the source of the program in front of the forge, which answers only to known host names: Gitea has no such check. A web page whose name
// was rebound to the forge's address would otherwise reach it from the user's browser.
package gate

import (
	"embed"
	"io/fs"
)

// Component is the name of the program's image, and Program its file in there.
const (
	Component = "gate"
	Program   = "/gate"
)

// Module is the module path of the program, GoMod its go.mod.
const (
	Module = "homelab/lab/gate"
	GoMod  = "module " + Module + "\n\ngo 1.25\n"
)

//go:embed program/main.go
var source embed.FS

// Source returns the module's source.
func Source() fs.FS { return source }
