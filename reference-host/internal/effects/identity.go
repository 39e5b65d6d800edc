package effects

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"wopcert/reference-host/internal/engine"
)

// The ways an effect is keyed (idempotency.md §Layer 2).
const (
	ByBusiness = "business-identity"
	ByActivity = "activity-recipe"
)

// identity says which effect a request is. Neither the attempt nor anything else that a retry changes is part of it.
type identity struct {
	// id is tenant-bound (identity.md §5).
	id     string
	keying string
	// key is what the provider gets as its idempotency key. It is made of the identity and of nothing secret.
	key string
	// invocation names the logical invocation within its run.
	invocation string
	// digest tells two requests under one key apart.
	digest [sha256.Size]byte
}

// identify makes the identity. An effect with a business key is that operation of its tenant wherever it comes from;
// one without is what this run, this execution of this node, did as its n-th effect at that provider.
func identify(effect *engine.Effect) identity {
	i := identity{keying: ByActivity, invocation: effect.Invocation(), digest: digest(effect)}
	var name string
	switch {
	case effect.Inverse != "":
		name = hash("inverse", effect.Tenant, effect.Inverse, strconv.Itoa(effect.Ordinal))
		i.invocation += ".inverse"
	case effect.Key != "":
		i.keying = ByBusiness
		name = hash("business", effect.Tenant, effect.Key)
	default:
		name = hash("activity", effect.Tenant, effect.RunID, i.invocation, effect.Provider())
	}
	i.key = "fx-" + name
	i.id = effect.Tenant + "/" + i.key
	return i
}

// hash names a tuple: each part goes in with its length, so that no two tuples are one text.
func hash(parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:20])
}

func digest(effect *engine.Effect) [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{[]byte(effect.Seam), []byte(effect.Method), []byte(effect.URL), effect.Body}, []byte{0}))
}

// InverseID is the effect id of the inverse action with this identity.
func InverseID(tenant, identity string) string {
	i := identify(&engine.Effect{Tenant: tenant, Inverse: identity})
	return i.id
}
