package state

import "slices"

// partsFile has the optional parts that the lab may have.
const partsFile = "parts.json"

// HasPart reports whether an optional part may exist: also if the record is lost, or an older lab wrote none.
func (d *Dir) HasPart(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, known := d.parts()
	return !known || slices.Contains(names, name)
}

// Parts returns the names of the optional parts that may exist, as far as they are recorded.
func (d *Dir) Parts() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, _ := d.parts()
	return names
}

// SaveParts records the names of the optional parts that exist, or are about to.
func (d *Dir) SaveParts(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saveParts(names)
}

// ForgetPart records that an optional part has gone.
func (d *Dir) ForgetPart(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, known := d.parts()
	if !known {
		return nil
	}
	return d.saveParts(slices.DeleteFunc(names, func(n string) bool { return n == name }))
}

func (d *Dir) parts() (names []string, known bool) {
	err := d.read(partsFile, &names)
	return names, err == nil
}

func (d *Dir) saveParts(names []string) error {
	slices.Sort(names)
	if had, known := d.parts(); known && slices.Equal(had, names) {
		return nil
	}
	return d.write(partsFile, append([]string{}, names...))
}
