//! Reasons why the handshake of a connection fails.

use crate::numbered;

numbered!(
    /// The detail of [`Failure::AuthFailed`](super::Failure::AuthFailed). The client detects some of them, because it must verify the server before
    /// it sends a proof itself.
    AuthFault: u32 {
        /// The client's proof is wrong for this secret.
        Proof = 1, "the secret given is not this cluster's: use the file that its nodes were started with";
        /// The server's proof is wrong.
        ServerProof = 2, "the server does not know the secret given: it is of another cluster, or the file is the wrong one";
        /// The server sends no proof.
        NoSecretThere = 3, "a secret was given, but the server has none and proves nothing: start its nodes with the \
                            secret, or leave it out here";
        /// A method of proof that this program does not know.
        Method = 4, "the method of proof is not supported here: update the older program";
        /// The server requires a proof that was not agreed on.
        OtherProof = 5, "the server requires another proof than this client offers";
        /// The token is unknown or was revoked.
        Token = 6, "the token is unknown to this cluster, or was revoked: ask its administrator for another";
        /// The server accepts only TLS on this connection, which has none.
        TlsWanted = 7, "the server accepts only TLS: name the certificate of its CA, with --tls-ca or ZEROHOP_TLS_CA";
        /// The client has a CA, and the server does not reply with TLS.
        NoTlsThere = 8, "the certificate of a CA was given, but the server does not speak TLS: start its nodes with --tls-cert \
                         and --tls-key, or leave it out here";
        /// The server's certificate was not issued by the given CA, or is invalid otherwise.
        Certificate = 9, "the server's certificate is not one by the CA given: it is of another cluster, or the file is the \
                          wrong one";
        /// The server's certificate does not have the name or address that the client connects to.
        CertificateName = 10, "the server's certificate does not name the address you used: have one made that does";
        /// The server's certificate is not valid yet.
        CertificateTime = 11, "the server's certificate is not valid yet: set the clock, here or where it was made";
        /// Both sides speak TLS, and have no common settings.
        Tls = 12, "the two sides speak TLS but do not agree: both need version 1.3";
        /// The token was valid for a limited time, which is over.
        TokenExpired = 13, "the token has expired: ask the cluster's administrator for another, which `zerohop token new` makes";
        /// The server serves only clients with a certificate, and this client has none.
        ClientCertificateWanted = 14, "the server serves only clients with a certificate, and none was given: name one by the CA of its \
                                       clients, with --tls-cert and --tls-key";
        /// The client's certificate was not issued by the CA that the server trusts, or is invalid otherwise.
        ClientCertificate = 15, "the server rejects this client's certificate: use one for clients that the CA of its --tls-client-ca \
                                 has issued";
        /// The client's certificate has expired, or is not valid yet.
        ClientCertificateTime = 16, "the certificate of this client has expired, or is not valid yet: have another made, as by `zerohop tls \
                                     add`, or set the clock";
        /// The server's certificate has expired.
        CertificateExpired = 17, "the server's certificate has expired: have another made, as by `zerohop tls add`, and restart the node with it; \
                                  or set the clock of this machine";
    }
);
