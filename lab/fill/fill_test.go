package fill

import "testing"

// A placeholder is a value that its field takes.
func TestPlaceholderFits(t *testing.T) {
	for _, kind := range []Type{Text, URL, Integer, Number, Boolean, Port, NodePort, CPU, Memory, Quantity, Duration, Cron, TimeZone, IP, CIDR, Values, Docker} {
		value := kind.Placeholder("CLOUDFLARE_ACCOUNT_ID")
		if !kind.Fits(value) {
			t.Errorf("%s refuses %q", kind, value)
		}
		if again, known := typeOf(string(kind)); !known || again != kind {
			t.Errorf("comments of %s are not read", kind)
		}
	}
	if got := Text.Placeholder("CLOUDFLARE_ACCOUNT_ID"); got != "lab-open-cloudflare-account-id" {
		t.Error(got)
	}
}

func TestFits(t *testing.T) {
	for kind, texts := range map[Type][]string{
		Integer: {"", "1.5", "two"}, Number: {"x"}, Boolean: {"yes"}, Port: {"0", "70000"}, CPU: {"1 core"}, Duration: {"5"}, Cron: {"daily"}, IP: {"10.0.0"}, CIDR: {"10.0.0.1"},
		URL: {"example.com"}, Values: {"- a"}, Docker: {"{"},
	} {
		for _, text := range texts {
			if kind.Fits(text) {
				t.Errorf("%s takes %q", kind, text)
			}
		}
	}
}
