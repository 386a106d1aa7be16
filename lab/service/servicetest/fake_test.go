package servicetest_test

import (
	"testing"

	"homelab/lab"
	"homelab/lab/service/servicetest"
)

func TestFake(t *testing.T) {
	f := &servicetest.Fake{Name: "part", Keeps: true}
	servicetest.Contract(t, servicetest.Subject{
		Service: f, Image: lab.Image{Ref: "part:1"}, Newer: lab.Image{Ref: "part:2"}, Stop: f.Stop, Disconnect: f.Disconnect, Sicken: f.Sicken, Lose: f.Lose, Put: f.Put, Held: f.Held,
	})
}
