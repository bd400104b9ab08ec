-- {secret}: stored unless something is.
{insert} INTO tidegate_secret (id, secret) VALUES (1, {secret}) {or_ignore};
