package mcpstdio

// lineOf returns a copy of a message with its line feed. Raw carriage returns
// and line feeds, which JSON allows between tokens only, become spaces; replaced
// says how many. Nothing else is changed.
func lineOf(message []byte) (line []byte, replaced uint64) {
	line = append(make([]byte, 0, len(message)+1), message...)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
			replaced++
		}
	}
	return append(line, '\n'), replaced
}
