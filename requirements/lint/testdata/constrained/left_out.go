//go:build never

package constrained // want shape "build constraints"
