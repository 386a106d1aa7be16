package engine

// Marks is a change of a registration: labels and annotations to set, or to remove if nil. Others are unchanged.
type Marks struct {
	Labels      map[string]*string
	Annotations map[string]*string
}
