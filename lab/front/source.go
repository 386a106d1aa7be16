package front

import (
	"embed"
	"io/fs"
)

// Module is the module path of the program.
const Module = "homelab/lab/front"

//go:embed program/main.go proxy/certificate.go proxy/client.go proxy/config.go proxy/connect.go proxy/git.go proxy/limit.go proxy/pktline.go proxy/server.go
//go:embed proxy/socks.go proxy/uploadpack.go proxy/webhook.go sshd/sshd.go
var source embed.FS

// Source returns the module's source, without tests.
func Source() fs.FS { return source }

// GoMod and GoSum are the module's go.mod and go.sum: lab's own versions and sums of what it imports.
var (
	//go:embed module/mod
	GoMod string
	//go:embed module/sum
	GoSum string
)
