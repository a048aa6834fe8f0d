package spawn

import "fmt"

func enumName(names []string, n uint8, kind string) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

func enumText(names []string, n uint8, kind string) ([]byte, error) {
	if int(n) < len(names) {
		return []byte(names[n]), nil
	}
	return nil, fmt.Errorf("spawn: %s %d has no name", kind, n)
}

func enumValue(names []string, text []byte, kind string) (uint8, error) {
	for i, name := range names {
		if string(text) == name {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("spawn: unknown %s %q", kind, text)
}
