// Command generate writes the derived files of the contract: the error envelope
// schema, the event type schema and CORPUS-STAMP.json. Run it with
// go generate ./corpus after changing a registry or a schema.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
