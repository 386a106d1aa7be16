package front

import (
	"embed"
	"io/fs"
)

// Module is the module path of the program, GoMod its go.mod.
const (
	Module = "homelab/lab/front"
	GoMod  = "module " + Module + "\n\ngo 1.25\n"
)

//go:embed program/main.go proxy/authority.go proxy/config.go proxy/connect.go proxy/git.go proxy/pktline.go proxy/server.go proxy/socks.go
//go:embed proxy/uploadpack.go proxy/webhook.go sshd/exchange.go sshd/session.go sshd/sshd.go sshd/transport.go sshd/wire.go
var source embed.FS

// Source returns the module's source, without tests.
func Source() fs.FS { return source }
