//! Why two sides of a connection do not believe each other.

use crate::numbered::numbered;

numbered!(
    /// The detail of [`Failure::AuthFailed`](super::Failure::AuthFailed). Some are found by the client, which is asked
    /// to believe the server before it proves anything itself.
    AuthFault: u32 {
        /// The client's proof is not the one that the secret makes.
        Proof = 1, "the secret given is not this cluster's: use the file that its nodes were started with";
        /// The server's proof is not.
        ServerProof = 2, "the server does not know the secret given: it is of another cluster, or the file is the wrong one";
        /// The server proves nothing.
        NoSecretThere = 3, "a secret was given, but the server has none and proves nothing: start its nodes with the \
                            secret, or leave it out here";
        /// A way of proving that this program does not know.
        Method = 4, "the way of proving that was chosen is not known here: bring the older program up to date";
        /// The server asks for a proof where none was agreed on.
        NotAsked = 5, "the server wants another proof than was offered";
        /// No such token, or no longer: it was revoked.
        Token = 6, "the token is unknown to this cluster, or was revoked: ask its administrator for another";
        /// The server takes only TLS of other machines, and this connection has none.
        TlsWanted = 7, "it takes only TLS from other machines: name the certificate of its CA, with --tls-ca or ZEROHOP_TLS_CA";
        /// A CA was given, and what the server says is no TLS.
        NoTlsThere = 8, "the certificate of a CA was given, but the server does not speak TLS: start its nodes with --tls-cert \
                         and --tls-key, or leave it out here";
        /// The server's certificate is not by the CA that was given, or is no good otherwise.
        Certificate = 9, "the server's certificate is not one by the CA given: it is of another cluster, or the file is the \
                          wrong one";
        /// The server's certificate does not have the name or address by which the server was asked for.
        CertificateName = 10, "the server's certificate is by the CA given, but for other names or addresses than the one it was \
                               reached by: have one made that has it";
        /// The server's certificate was good once, or will be.
        CertificateTime = 11, "the server's certificate is not valid at this time: renew it, or set the clock";
        /// Both speak TLS, and do not agree.
        Tls = 12, "the two sides speak TLS but do not agree: both need version 1.3";
        /// The token was good for a time, which is over.
        TokenExpired = 13, "the token has expired: ask the cluster's administrator for another, which `zerohop token new` makes";
    }
);
