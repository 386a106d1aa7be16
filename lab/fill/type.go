package fill

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"homelab/lab"
)

// Type is what a field takes.
type Type string

// The types, as in comments.
const (
	Text     Type = ""
	Integer  Type = "integer"
	Number   Type = "number"
	Boolean  Type = "boolean"
	Port     Type = "port"
	NodePort Type = "node port"
	CPU      Type = "cpu"
	Memory   Type = "memory"
	Quantity Type = "quantity"
	Duration Type = "duration"
	Cron     Type = "cron schedule"
	TimeZone Type = "time zone"
	IP       Type = "IP address"
	CIDR     Type = "CIDR"
	URL      Type = "URL"
	Values   Type = "values of a chart"
	Docker   Type = "docker config"
)

var (
	unfit     = regexp.MustCompile(`[^a-z0-9]+`)
	scheduled = regexp.MustCompile(`^(@[a-z]+( \S+)?|(\S+\s+){4}\S+)$`)
)

// placeholders are what stands for a value where a text would be refused.
var placeholders = map[Type]string{
	Integer: "1", Number: "1", Boolean: "false", Port: "8080", NodePort: "30080", CPU: "100m", Memory: "128Mi", Quantity: "1Gi", Duration: "1h", Cron: "0 0 * * *",
	TimeZone: "UTC", IP: "192.0.2.1", CIDR: "192.0.2.0/24", Values: "{}", Docker: `{"auths":{}}`,
}

// Placeholder returns the value of an open key: lab-open-NAME, or the same value of the type for all. It is also the name of an object, and the value of a label.
func (t Type) Placeholder(name string) string {
	if value, ok := placeholders[t]; ok {
		return value
	}
	const longest = 63
	name = lab.OpenPrefix + strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")
	name = strings.Trim(name[:min(len(name), longest)], "-")
	if t == URL {
		return "https://" + name + ".invalid"
	}
	return name
}

// Fits reports whether a field of the type takes a value.
func (t Type) Fits(value string) bool {
	var err error
	switch t {
	case Integer:
		_, err = strconv.ParseInt(value, 10, 64)
	case Number:
		_, err = strconv.ParseFloat(value, 64)
	case Boolean:
		return value == "true" || value == "false"
	case Port, NodePort:
		n, err := strconv.ParseUint(value, 10, 16)
		return err == nil && n > 0
	case CPU, Memory, Quantity:
		_, err = resource.ParseQuantity(value)
	case Duration:
		_, err = time.ParseDuration(value)
	case Cron:
		return scheduled.MatchString(value)
	case IP:
		_, err = netip.ParseAddr(value)
	case CIDR:
		_, err = netip.ParsePrefix(value)
	case URL:
		u, err := url.Parse(value)
		return err == nil && u.Scheme != ""
	case Values:
		err = yaml.Unmarshal([]byte(value), &map[string]any{})
	case Docker:
		return json.Valid([]byte(value))
	}
	return err == nil
}

// typeOf returns the type of a name in a comment.
func typeOf(name string) (Type, bool) {
	t := Type(name)
	_, known := placeholders[t]
	return t, known || slices.Contains([]Type{Text, URL}, t)
}
